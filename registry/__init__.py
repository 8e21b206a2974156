"""The record in MLflow: checkpoints, manifests, versions, stage evidence, the ledger."""
