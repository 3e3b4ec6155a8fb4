"""Private studies: an algorithm that runs another one on synthetic tables, which it draws from noisy sketches."""
