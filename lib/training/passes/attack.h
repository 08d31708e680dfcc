#pragma once

#include <optional>

#include "models/objective.h"
#include "support/options.h"

namespace dimred::training {

struct Setup;

enum class AttackKind { none, fgsm, pgd };

/// Perturbed images x', |x' - x| <= epsilon in every pixel, on which the loss is high. All lengths
/// are parts of the pixels' range, which images never leave.
struct AttackOptions {
  AttackKind kind = AttackKind::none;
  double epsilon = 0;               // (0, 1)
  std::int64_t steps = 10;          // of pgd, >= 1
  std::optional<double> step_size;  // of pgd, > 0; unset: 2.5 epsilon / steps
};

/// The rows attack, epsilon, attack_steps and attack_step_size of the table's present group.
void add_options(OptionTable& table, AttackOptions& options);

/// Throws std::invalid_argument for an attack without epsilon.
void validate(const AttackOptions& options);

/// Forward and backward passes over a batch that an attack costs.
std::int64_t passes_of(const AttackOptions& options);

/// The batch with attacked images. fgsm: one step of epsilon along the sign of the gradient by the
/// images; pgd: a random start in the cube, then steps that are projected into it. In train mode
/// the pass is the training's own (batch statistics, dropout). Weights, their gradients and running
/// statistics stay as they are. The random numbers come from torch's generator as it stands. Throws
/// std::invalid_argument for a network whose loss has no gradient by its images.
///
/// Source: Goodfellow et al. 2015 (FGSM); Madry et al. 2018 (PGD).
models::Minibatch attacked(const Setup& setup,
                           const models::Minibatch& batch,
                           models::Mode mode,
                           const AttackOptions& options);

}  // namespace dimred::training
