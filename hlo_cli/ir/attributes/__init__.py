"""What instructions carry besides operands: `sharding.Sharding`, `window.Window`, `devices.IotaReplicaGroupList` and
the like; `values.AttributeValue` is any of them. Each prints as XLA prints it.
"""
