"""One function per figure: tables in, Axes out."""
