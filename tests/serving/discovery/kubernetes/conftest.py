"""A cluster with one replica."""

from __future__ import annotations

import kmock as km
import pytest

from tests.serving.discovery.kubernetes.build import ONE, slices
from tests.serving.discovery.kubernetes.cluster import SLICES, Cluster


@pytest.fixture
def cluster(kmock: km.RawHandler) -> Cluster:
    made = Cluster(kmock)
    made.lists[SLICES] = [slices(ONE)]
    return made
