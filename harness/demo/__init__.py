"""Demo agents, the small world they live in, and the sessions they replay."""
