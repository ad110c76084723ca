"""The questions and orders of operators that a running node answers, one file for each subject.

A subject is a subclass of `Questions`. If it needs no more than `CycleView` shows, a file here is all that it takes:
the node finds the class in it. Otherwise `RunningNode` makes the instance, and gives it what it needs.
"""
