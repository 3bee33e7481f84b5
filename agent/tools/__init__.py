"""The tools of the model. Each says in a plan what it will do before it does it."""
