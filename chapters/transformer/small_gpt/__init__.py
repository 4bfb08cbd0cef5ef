"""The small GPT of this topic: its model, its training, its server. Code that the notebooks show."""
