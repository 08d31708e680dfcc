#include "training/passes/attack.h"

#include <torch/autograd.h>

#include <algorithm>

#include "support/errors.h"
#include "support/scope_exit.h"
#include "training/setup.h"

namespace dimred::training {
namespace {

/// A number for each channel, [1, channels, 1, 1], as the images are.
torch::Tensor by_channel(const std::vector<double>& values, const torch::Tensor& images) {
  auto row = torch::tensor(values, torch::kFloat32).to(images.device());
  return row.expand({images.size(1)}).view({1, -1, 1, 1});
}

/// What the perturbed images of a batch may be, in their normalised values.
struct Cube {
  torch::Tensor images, low, high;  // low, high: of pixels 0 and 1
  torch::Tensor radius;

  Cube(const Setup& setup, const torch::Tensor& of, double epsilon) : images(of.detach()) {
    const auto& preprocessing = setup.data.preprocessing;
    const auto mean = by_channel(preprocessing.mean, of);
    const auto deviation = by_channel(preprocessing.deviation, of);
    low = -mean / deviation;
    high = (1 - mean) / deviation;
    radius = epsilon / deviation;
  }

  torch::Tensor nearest(const torch::Tensor& x) const {
    const auto near = torch::minimum(torch::maximum(x, images - radius), images + radius);
    return torch::minimum(torch::maximum(near, low), high);
  }
};

/// The gradient of the loss with respect to the images of one part of a batch.
torch::Tensor part_gradient(const Setup& setup,
                            const torch::Tensor& images,
                            const torch::Tensor& labels,
                            models::Mode mode) {
  const at::AutoGradMode with_grad(true);
  const auto x = images.detach().requires_grad_(true);
  const auto evaluation = setup.model.objective->evaluate({x, labels}, mode);
  torch::Tensor gradient;
  if (evaluation.loss_sum.requires_grad())
    gradient = torch::autograd::grad({evaluation.loss_sum},
                                     {x},
                                     /*grad_outputs=*/{},
                                     /*retain_graph=*/std::nullopt,
                                     /*create_graph=*/false,
                                     /*allow_unused=*/true)[0];
  require(gradient.defined(),
          "[training::attack] needs a network whose loss has a gradient by its images; this one "
          "has none");
  return gradient;
}

/// Its sign, by the parts in which the batch is trained.
torch::Tensor gradient_sign(const Setup& setup,
                            const torch::Tensor& images,
                            const torch::Tensor& labels,
                            models::Mode mode) {
  auto sign = torch::empty_like(images);
  const auto parts = std::min(setup.model.gradient_accumulation, images.size(0));
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto begin = part * images.size(0) / parts;
    const auto size = (part + 1) * images.size(0) / parts - begin;
    const auto gradient =
        part_gradient(setup, images.narrow(0, begin, size), labels.narrow(0, begin, size), mode);
    sign.narrow(0, begin, size).copy_(gradient.sign());
  }
  return sign;
}

}  // namespace

void add_options(OptionTable& table, AttackOptions& options) {
  table.add_choice(
      "attack",
      &options.kind,
      "images are perturbed so that the loss rises: by one step along the gradient's "
      "sign (FGSM), or by several from a random start (PGD)",
      {{"none", AttackKind::none}, {"fgsm", AttackKind::fgsm}, {"pgd", AttackKind::pgd}});
  table.add("epsilon",
            &options.epsilon,
            "most that an attack changes a pixel by, as a part of the pixels' range",
            less_than(1));
  table.add("attack_steps", &options.steps, "of attack = pgd", between(1, 10000));
  table.add("attack_step_size",
            &options.step_size,
            "of attack = pgd, as a part of the pixels' range (default: 2.5 epsilon / attack_steps)",
            positive(1));
}

void validate(const AttackOptions& options) {
  require(options.kind == AttackKind::none || options.epsilon > 0,
          "[training::attack] attack needs --epsilon in (0, 1), received {}",
          options.epsilon);
}

std::int64_t passes_of(const AttackOptions& options) {
  switch (options.kind) {
    case AttackKind::none:
      return 0;
    case AttackKind::fgsm:
      return 1;
    default:
      return options.steps;
  }
}

models::Minibatch attacked(const Setup& setup,
                           const models::Minibatch& batch,
                           models::Mode mode,
                           const AttackOptions& options) {
  if (options.kind == AttackKind::none || batch.labels.size(0) == 0) return batch;
  const torch::NoGradGuard no_grad;
  const auto& flat = setup.model.flat;
  const ScopeExit back([&flat, buffers = flat.buffers.clone(), counters = flat.counters.clone()] {
    flat.buffers.copy_(buffers);
    flat.counters.copy_(counters);
  });
  const Cube cube(setup, batch.images, options.epsilon);
  const bool one_step = options.kind == AttackKind::fgsm;
  const auto steps = passes_of(options);
  const double size =
      one_step ? options.epsilon
               : options.step_size.value_or(2.5 * options.epsilon / static_cast<double>(steps));
  const auto stride = cube.radius * (size / options.epsilon);
  auto x = cube.images;
  if (!one_step) x = cube.nearest(x + cube.radius * (2 * torch::rand_like(x) - 1));
  for (std::int64_t step = 0; step < steps; ++step)
    x = cube.nearest(x + stride * gradient_sign(setup, x, batch.labels, mode));
  return {x, batch.labels};
}

}  // namespace dimred::training
