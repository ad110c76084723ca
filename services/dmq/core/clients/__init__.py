"""The clients of a DMQ node: signers and consumers at its doors, their places, and the progress of the named ones."""
