"""All tests. This is a package in so many words: a distribution that installs a ``tests`` of its own, as
apache-iotdb does, would be taken for this folder otherwise."""
