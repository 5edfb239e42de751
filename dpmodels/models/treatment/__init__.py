"""``dp_ate``: average treatment effects by augmented inverse probability weighting."""
