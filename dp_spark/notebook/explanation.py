"""What a release promises and what its numbers will be worth, for a reader at a prompt or in a notebook."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from dp_spark.errors import Refusal
from dp_spark.release.enrolling import plan_for
from dp_spark.release.listing import with_listed_files
from dp_spark.release.places import paying_account, private_sources
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.profile import Profile
from dp_spark.release.spec import FROM_BUDGET, ReleaseSpec
from dp_spark.report import ReleaseFacts, facts_text, release_facts


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A plan in words; its text is what a prompt and a notebook show of it.

    Attributes:
        facts: what the words say.
        unknown: why it is not known what the account has left, or empty.
    """

    facts: ReleaseFacts
    unknown: str = ""

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (facts_text(self.facts), self.unknown)))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"


def explained(spec: ReleaseSpec, plan: Callable[[], ReleasePlan], profile: Profile) -> Explanation:
    """A release in words, with what the profile's ledger says of the account that would pay.

    `plan` gives what it is planned for without an account; a schedule of the account has a plan of its own.
    """

    def with_groups(plan: ReleasePlan) -> ReleasePlan:
        return with_listed_files(plan, private_sources(profile, spec))

    try:
        account = paying_account(profile, spec)
    except Refusal as refusal:
        return Explanation(release_facts(with_groups(plan())), f"What is left is not known: {refusal}")
    by_itself = spec.release not in account.enrolled and spec.guarantee != FROM_BUDGET
    planned = plan() if by_itself else plan_for(account, spec)
    return Explanation(release_facts(with_groups(planned), budget=account))
