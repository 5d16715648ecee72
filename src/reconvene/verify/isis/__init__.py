"""The checks of process groups in the manner of ISIS (paper 002, sections 3 and 4), for rows of the layer `isis`.

All of them read `History.isis`. None is proven on Spark: a run with such rows is judged whole by the local engine.
"""
