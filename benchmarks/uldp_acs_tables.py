"""The tables of the evaluation on ACS: curves met, errors, targets, best channels."""

from collections.abc import Sequence
from dataclasses import dataclass

from acs import AUTHORS_REPLICATES, NO_PRIVACY, Acs, Case
from printing import head, line
from scipy.stats import t as student
from uldp_against import Ratio, paired_ratio, pooled_ratio, ratio
from uldp_errors import LIKELIHOOD, PUBLISHED, Errors

from dp_spark.uldp import MechanismName

FALSE_ALARM, FALSE_ALARM_OF_A_POINT = 1e-3, 1e-4  # of "NOT MET", by Student's law
TARGETS = ((0.0, 1.0, 0.5), (1.0, 2.0, 0.7), (2.0, 3.0, 0.9))  # above, up to, most of the authors' error
EQUAL_FROM = 5.0  # epsilon from which ours may only be as good
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Point:
    """All errors at one epsilon of a case.

    Attributes:
        index: of the authors' grid.
        epsilon: of each report.
        errors: by mechanism and decoder.
        floors: of shares that are even inside the sensitive categories, by what else is known.
    """

    index: int
    epsilon: float
    errors: dict[str, dict[str, Errors]]
    floors: dict[str, Errors]


def reproduced(acs: Acs, case: Case, points: Sequence[Point], sampling: Errors) -> None:
    """Print our errors with the authors' decoders beside their curves."""
    replicates = len(sampling.totals)
    most = student.isf(FALSE_ALARM / 2, min(replicates, AUTHORS_REPLICATES) - 1)
    most_of_a_point = student.isf(FALSE_ALARM_OF_A_POINT / 2, replicates + AUTHORS_REPLICATES - 2)
    print(f"\n**{case.name}: their decoders.** Ours / theirs; a curve is met where the pooled ratio is")
    print(f"within {most:.1f} standard errors of 1 and each point within {most_of_a_point:.1f}.\n")
    print(head("mechanism", "pooled ratio", "z", "worst point", "its ratio", "its z", ""))
    for name in MechanismName:
        curve = acs.curves.get((case.name, str(name)))
        if curve is None:
            continue
        curve = curve.at([point.index for point in points])
        ours = [point.errors[name][PUBLISHED] for point in points]
        pooled = pooled_ratio(ours, curve)
        each = [ratio(*one) for one in zip(ours, curve.means, curve.stds, strict=True)]
        worst = max(range(len(each)), key=lambda i: abs(each[i].z))
        met = abs(pooled.z) < most and abs(each[worst].z) < most_of_a_point
        verdict = "met" if met else "NOT MET"
        at = f"epsilon {points[worst].epsilon:.3f}"
        print(line(name, pooled, f"{pooled.z:+.1f}", at, each[worst], f"{each[worst].z:+.1f}", verdict))
    curve = acs.curves[case.name, NO_PRIVACY]
    alone = ratio(sampling, curve.means[0], curve.stds[0])
    print(line("no privacy", alone, f"{alone.z:+.1f}", "-", "-", "-", ""))


def errors_by_epsilon(case: Case, points: Sequence[Point], decoder: str, sampling: Errors) -> None:
    """Print the errors of all mechanisms, in units of 1e-6."""
    print(f"\n**{case.name}: errors x 1e6, {decoder}.** No privacy: {_micro(sampling)}.\n")
    floors = list(points[0].floors) if decoder == LIKELIHOOD else []
    print(head("epsilon", *MechanismName, *(f"even inside S, {name}" for name in floors)))
    for point in points:
        row = [point.errors[name][decoder] for name in MechanismName]
        row += [point.floors[name] for name in floors]
        print(line(f"{point.epsilon:.3f}", *map(_micro, row)))


def _micro(errors: Errors) -> str:
    error = errors.std / len(errors.totals) ** 0.5
    return f"{1e6 * errors.mean:.3g} ± {1e6 * error:.2g}"


def targets(acs: Acs, case: Case, points: Sequence[Point]) -> None:
    """Print uBD by the likelihood beside the authors' uBD, and whether it is as good as it should be."""
    print(f"\n**{case.name}: uBD by the likelihood.** Its error / the authors' of uBD, and / that by")
    print("their decoder of the same reports.\n")
    print(head("epsilon", "ratio", "target", "", "/ our own, same reports"))
    verdicts = []
    for point in points:
        curve = acs.curves[case.name, MechanismName.UBD]
        ours = point.errors[MechanismName.UBD]
        found = ratio(ours[LIKELIHOOD], curve.means[point.index], curve.stds[point.index])
        target, verdict = _judged(point.epsilon, found)
        verdicts.append(verdict)
        own = paired_ratio(ours[LIKELIHOOD], ours[PUBLISHED])
        print(line(f"{point.epsilon:.3f}", found, target, verdict, own))
    print(f"\n{verdicts.count('pass')} pass, {verdicts.count('FAIL')} fail.")


def _judged(epsilon: float, found: Ratio) -> tuple[str, str]:
    """The target at an epsilon, and whether it is met."""
    for above, up_to, most in TARGETS:
        if above < epsilon <= up_to:
            return f"at most {most}", "pass" if found.value <= most else "FAIL"
    if epsilon < EQUAL_FROM:
        return "none", "-"
    within = found.value - STANDARD_ERRORS * found.error <= 1
    return f"1 within {STANDARD_ERRORS:g} standard errors", "pass" if within else "FAIL"


def best_channels(case: Case, points: Sequence[Point]) -> None:
    """Print which mechanism is best by the likelihood, and from which parts of the error that comes."""
    print(f"\n**{case.name}: the best mechanism by the likelihood.** Its error / that of uBD, same people;")
    print("parts x 1e6: shape inside S, mass of S, shape outside.\n")
    print(head("epsilon", "best", "/ uBD", "beyond 2 s.e.", "its parts", "of uBD"))
    for point in points:
        ours = {name: found[LIKELIHOOD] for name, found in point.errors.items()}
        best = min(ours, key=lambda name: ours[name].mean)
        if best == MechanismName.UBD:
            print(line(f"{point.epsilon:.3f}", best, "-", "-", _parts(ours[best]), ""))
            continue
        found = paired_ratio(ours[best], ours[MechanismName.UBD])
        clear = "yes" if found.value + STANDARD_ERRORS * found.error < 1 else "no"
        parts = _parts(ours[best]), _parts(ours[MechanismName.UBD])
        print(line(f"{point.epsilon:.3f}", best, found, clear, *parts))


def _parts(errors: Errors) -> str:
    return ", ".join(f"{1e6 * part:.3g}" for part in errors.parts.mean(axis=0))
