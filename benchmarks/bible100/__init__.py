"""108 real languages into English: the recipe, and what came of it."""
