"""Posterior sampling, objective perturbation and other members of the generalized-PTR family.

Source: Redberg, Zhu and Wang (2023), "Generalized PTR: User-Friendly Recipes for Data-Adaptive
Algorithms with Differential Privacy". Several printed constants understate epsilon; what is
implemented, with proofs, is in ``theory.md`` beside this file.
"""
