"""Values of attributes: `sharding.Sharding`, `value_types.Window`, `sharding.IotaReplicaGroupList`, and others;
`value_types.AttributeValue` is any of them. Each prints as in XLA.
"""
