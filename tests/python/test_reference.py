"""The NumPy reference checked on its own, because the C++ is judged by it."""

from __future__ import annotations

import numpy as np
import torch
from reference import mlp
from reference.problem import make_problem, minibatches, reference
from reference.stage2_reference import Constants, bfgs

CONSTANTS = Constants(rho=0.5, sigma=0.1, gamma=0.9, alpha=0.3, trials=2)


def test_loss_and_gradient_are_autograds() -> None:
    problem = make_problem(0, CONSTANTS, batch=16)
    images, labels = problem.images[:16], problem.labels[:16]
    value, gradient = mlp.loss_and_gradient(problem.weights, images, labels, problem.shape)
    arrays = mlp.unflatten(problem.weights, problem.shape)
    parts = [torch.tensor(array, requires_grad=True) for array in arrays]
    hidden = torch.tanh(torch.tensor(images) @ parts[0].T + parts[1])
    expected = torch.nn.functional.cross_entropy(hidden @ parts[2].T + parts[3], torch.tensor(labels))
    expected.backward()
    assert abs(value - expected.item()) < 1e-14
    np.testing.assert_allclose(gradient, torch.cat([p.grad.flatten() for p in parts]).numpy(), rtol=1e-12, atol=1e-15)


def test_bfgs_fulfils_the_secant_equation_and_stays_positive() -> None:
    generator = np.random.default_rng(1)
    H = np.eye(5)
    for _ in range(20):
        s = generator.normal(size=5)
        y = s + 0.3 * generator.normal(size=5)
        assert s @ y > 0
        H = bfgs(H, s, y)
        np.testing.assert_allclose(H @ y, s, rtol=1e-10, atol=1e-10)
        assert np.linalg.eigvalsh((H + H.T) / 2)[0] > 0


def test_robust_never_raises_the_loss_of_the_batch_it_sees() -> None:
    problem = make_problem(3, CONSTANTS, batch=16)
    trace, steps = reference(problem, "robust")
    before = problem.weights
    for batch, after, step in zip(minibatches(problem), trace, steps, strict=True):
        assert batch.loss(after) <= batch.loss(before)
        assert np.array_equal(after, before) == (not step.accepted)
        before = after
