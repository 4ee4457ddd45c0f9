"""A compact ReAct agent whose every gear can be seen and swapped."""
