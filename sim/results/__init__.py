"""What a run leaves behind: tables, figures, a digest, a folder."""
