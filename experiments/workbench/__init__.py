"""Functions that the experiment scripts share: reading run folders, running commands, drawing, tables."""
