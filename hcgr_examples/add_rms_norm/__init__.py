"""The second operation: fused add and RMSNorm, its oracle and its description. See docs/new_operation.md."""
