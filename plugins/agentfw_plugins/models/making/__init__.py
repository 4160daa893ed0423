"""Makes small language models from lessons, like those that ship: a tokenizer, the folder, and the training.

    write_folder(folder, word_tokenizer(lessons, r" ?\\w+|[^\\w]"), about=ABOUT)
    train(folder, lessons, Recipe(steps=1500, rate=4e-3))

A lesson is what a model is shown in a turn, and the answer that it should give. Such a model reads and writes like a
large one, and plays a world of its own in seconds. Training needs the extra `train`.
"""

from .training import Lesson, Recipe, save, train, write_folder
from .word_tokenizer import ABOUT, word_tokenizer

__all__ = ["ABOUT", "Lesson", "Recipe", "save", "train", "word_tokenizer", "write_folder"]
