"""Options that dimred refuses because another option leaves them without effect (commands/effects.cpp)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

Options = dict[str, Any]

# Each option, and the values of another one that it works with.
SCHEDULES = {
    "end_learning_rate": ("linear", "cosine", "polynomial", "fastnn-polynomial"),
    "power": ("polynomial",),
    "factor": ("step", "exponential", "plsc"),
    "milestones": ("step", "plsc"),
    "milestone_unit": ("step", "plsc"),
    "pieces": ("piecewise",),
    "decay_scheme": ("exponential", "polynomial", "fastnn-polynomial"),
}
OPTIMIZERS = {
    "momentum": ("momentum", "nesterov", "lars"),
    "adam_beta1": ("adam", "adamweightdecay"),
    "adam_beta2": ("adam", "adamweightdecay"),
    "opt_epsilon": ("adam", "adamweightdecay", "adadelta", "rmsprop"),
    "adagrad_initial_accumulator_value": ("adagrad",),
    "adadelta_rho": ("adadelta",),
    "rmsprop_momentum": ("rmsprop",),
    "rmsprop_decay": ("rmsprop",),
    "ftrl_learning_rate_power": ("ftrl",),
    "ftrl_initial_accumulator_value": ("ftrl",),
    "ftrl_l1": ("ftrl",),
    "ftrl_l2": ("ftrl",),
    "lars_coefficient": ("lars",),
    "lars_epsilon": ("lars",),
}
# Each option, and the number that must be above 0 for it.
SWITCHES = {
    "early_stopping_min_delta": "early_stopping_patience",
    "ema_warmup": "ema_decay",
    "profile_at_task": "profile_every_n_iters",
}
PRESETS = {"psgd": "psgd", "twa": "psgd", "sgd": "sgd", "swa": "sgd", "ema": "sgd", "schedule-free": "sgd"}  # all others are quasi-newton
STEPPED = ("psgd", "twa")  # their schedule
DECAYED = ("robust-mean", "twa", "sgd", "swa", "ema", "schedule-free")  # their weights
METHODS = {
    **dict.fromkeys(("rho", "sigma", "trials", "curvature", "curvature_floor", "relative_curvature_floor"), ("quasi-newton",)),
    **dict.fromkeys(("learning_rate", "momentum", "schedule"), ("psgd", "sgd")),
    **dict.fromkeys(("alpha", "gamma", "alpha_schedule"), ("quasi-newton", "psgd")),
}


def without(table: dict[str, tuple[str, ...]], value: str) -> set[str]:
    """Options of the table that this value of the other option has no use for."""
    return {option for option, values in table.items() if value not in values}


def of_stage1(options: Options) -> set[str]:
    """Defaults are dimred's."""
    schedule = options.get("schedule", "linear")
    found = without(SCHEDULES, schedule) | without(OPTIMIZERS, options.get("optimizer", "momentum"))
    warm = any(options.get(name, 0) for name in ("warmup_epochs", "warmup_steps"))
    found |= set() if warm else {"start_learning_rate", "warmup_scheme"}
    found |= {"learning_rate"} if schedule == "piecewise" and not warm else set()
    found |= {option for option, switch in SWITCHES.items() if not options.get(switch, 0)}
    found |= set() if options.get("snapshots_per_epoch", 1) else {"snapshot_from_epoch"}
    return found


def of_stage2(options: Options) -> set[str]:
    """By the kind of the method, its schedules and its weight decay."""
    kind, preset = options.get("method", "preset"), options.get("preset", "robust-mean")
    found = without(METHODS, PRESETS.get(preset, "quasi-newton") if kind == "preset" else kind)
    schedule = options.get("schedule", "step" if preset in STEPPED else "constant")
    found |= set() if "step" in (schedule, options.get("alpha_schedule")) else {"first_drop"}
    decays = options.get("weight_decay", preset in DECAYED)
    return found | (set() if decays else {"weight_decay_of"})


def idle(command: str, options: Options, open_options: Collection[str] = ()) -> set[str]:
    """Options that have no effect beside these. `open_options` are given, too, with values not known here:
    nothing is said to be idle because of them."""
    switches = ("schedule", "optimizer", "warmup_epochs", "warmup_steps", "snapshots_per_epoch", *SWITCHES.values(),
                "preset", "method", "alpha_schedule", "weight_decay")  # fmt: skip
    if set(switches) & set(open_options):
        return set()
    return of_stage1(options) if command == "stage1" else of_stage2(options)
