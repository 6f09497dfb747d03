"""Language models: the message model, the model registry and the three wire APIs."""
