"""What a release promises and what its numbers will be worth, for a reader at a prompt or in a notebook."""

from dataclasses import dataclass
from html import escape

from dp_spark.errors import Refusal
from dp_spark.release.places import paying_account
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.profile import Profile
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


def explained(plan: ReleasePlan, profile: Profile) -> Explanation:
    """The plan in words, with what the profile's ledger says of the account that would pay."""
    try:
        return Explanation(release_facts(plan, budget=paying_account(profile, plan.spec)))
    except Refusal as refusal:
        return Explanation(release_facts(plan), f"What is left is not known: {refusal}")
