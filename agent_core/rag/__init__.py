"""Retrieval: documents to chunks, chunks to an index, questions to passages that can be cited."""
