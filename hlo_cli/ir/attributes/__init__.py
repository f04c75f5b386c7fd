"""Values of attributes: `sharding.Sharding`, `window.Window`, `devices.IotaReplicaGroupList`, and
others; `values.AttributeValue` is any of them. Each prints as in XLA.
"""
