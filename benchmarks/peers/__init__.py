"""What laser is measured beside, each behind the calls that the subjects need."""
