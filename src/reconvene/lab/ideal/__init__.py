"""Protocols that make no mistakes: their traces show that the checks accept what is right."""
