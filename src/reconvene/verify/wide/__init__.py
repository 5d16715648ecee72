"""The checks of layer `wide`: what passes between domains keeps its order and its promises. One file a family."""
