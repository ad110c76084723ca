"""`router dmq bench`: what a DMQ node costs, beside bare verification of the same messages in the same run."""
