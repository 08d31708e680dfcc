#include "training/gradient.h"

#include <array>

#include "support/random.h"

namespace dimred::training {
namespace {

void seed_forward(const Setup& setup, ForwardKey key) {
  RandomStream stream(setup.seed,
                      RandomPurpose::forward,
                      static_cast<std::uint64_t>(key.epoch),
                      static_cast<std::uint64_t>(key.step));
  torch::manual_seed(stream.next());
}

BatchResult reduced(Setup& setup, const models::Evaluation& evaluation) {
  std::array<double, 3> sums{evaluation.loss_sum.item<double>(),
                             static_cast<double>(evaluation.correct_count.item<std::int64_t>()),
                             static_cast<double>(evaluation.sample_count)};
  setup.communicator->all_reduce(sums);
  return {sums[0], sums[1], sums[2]};
}

}  // namespace

BatchResult loss_and_gradient(Setup& setup,
                              const models::Minibatch& batch,
                              std::int64_t global_count,
                              ForwardKey key) {
  seed_forward(setup, key);
  setup.flat.gradient.zero_();
  const auto evaluation = setup.objective->evaluate(batch, models::Mode::train);
  (evaluation.loss_sum / static_cast<double>(global_count)).backward();
  return reduced(setup, evaluation);
}

BatchResult loss_only(Setup& setup, const models::Minibatch& batch, ForwardKey key) {
  const torch::NoGradGuard no_grad;
  seed_forward(setup, key);
  return reduced(setup, setup.objective->evaluate(batch, models::Mode::train));
}

}  // namespace dimred::training
