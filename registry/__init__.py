"""The record: checkpoints, manifests, versions, stage evidence and the promotion ledger, in MLflow."""
