"""The inbox: an assistant writes a document while mails arrive."""
