"""The loops: a node's parent process, its children, and the threads that keep it alive."""
