



copy.4kCopy
"

all-reduce-start
kAllReduce