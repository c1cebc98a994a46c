"""What a directory or workspace tells an agent: instructions, and skills that it can activate."""
