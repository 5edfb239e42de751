"""Ordered and unordered categories as responses: proportional odds, multinomial logit."""
