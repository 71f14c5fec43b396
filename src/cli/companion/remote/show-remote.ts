import {
  consentScopes,
  type ProviderRow,
  type RemoteReport,
} from "../../../client/bus/remote-wire.ts";
import { formatAge, formatTime } from "../../age.ts";
import { colourOfStatus } from "../../colours.ts";
import { type Look, section } from "../../output/sections.ts";
import { formatTable } from "../../output/table.ts";
import { shownLine } from "../untrusted-text.ts";

/** What each scope stands for, as `docs/remote.md` has it. */
const meanings: Readonly<Record<(typeof consentScopes)[number], string>> = {
  prompt: "what you and programs of yours write to a model",
  files: "passages of files that were found for a question",
  mail: "the same of mail",
  calendar: "the same of the calendar",
  screen: "what is on the screen",
  memory: "what apps have had remembered",
};

/** Providers, below them what may go to any of them, and what a person should see to. */
export function showRemote(report: RemoteReport, look: Look): string {
  const parts = [showProviders(report.providers, look), consentSection(report, look)];
  const { pending, protection } = report;
  if (pending.length > 0)
    parts.push(`A sign-in is under way at ${pending.map((id) => shownLine(id)).join(", ")}.`);
  if (protection.isLocked)
    parts.push(
      look.colours.red(
        `Keys cannot be read or written now: ${shownLine(protection.message ?? "what they are encrypted with is locked")}`,
      ),
    );
  return parts.map((part) => part.trimEnd()).join("\n\n");
}

export function showProviders(providers: readonly ProviderRow[], look: Look): string {
  return formatTable(
    providers,
    [
      { header: "PROVIDER", value: ({ id }) => shownLine(id) },
      { header: "ADDRESS", value: address, shrinks: true },
      { header: "CREDENTIAL", value: (provider) => credential(provider, look.nowMs) },
      {
        header: "STATUS",
        value: ({ status }) => shownLine(status),
        colour: (text, { status }) => colourOf(look, status)(text),
      },
      { header: "LAST USED", value: ({ lastUsed }) => formatAge(lastUsed, look.nowMs) },
    ],
    { width: look.width },
  );
}

/** A line for each scope. */
export function showConsent(consent: RemoteReport["consent"], look: Look): string {
  return consentScopes
    .map((scope) => {
      const answer = consent[scope] ? look.colours.yellow("on ") : look.colours.dim("off");
      return `${scope.padEnd(8)}   ${answer}   ${look.colours.dim(meanings[scope])}`;
    })
    .join("\n");
}

function consentSection({ consent }: RemoteReport, look: Look): string {
  return section(
    "May leave this machine (`berth remote consent`)",
    showConsent(consent, look),
    look,
  );
}

function address({ baseUrl, addressClass }: ProviderRow): string {
  const text = shownLine(baseUrl);
  if (addressClass === "loopback") return `${text} (this machine)`;
  return addressClass === "private" ? `${text} (your network)` : text;
}

function credential(
  { credential: { kind, expiresAt }, hasSignIn, addressClass }: ProviderRow,
  nowMs: number,
) {
  if (kind === "key") return "key";
  if (kind === "oauth")
    return expiresAt === undefined
      ? "signed in"
      : `signed in until ${formatTime(expiresAt, nowMs)}`;
  if (hasSignIn) return "none; has a sign-in";
  return addressClass === "loopback" ? "none; needs none" : "none";
}

function colourOf({ colours }: Look, status: string): (text: string) => string {
  if (status === "unknown") return colours.dim;
  if (status === "unauthorized" || status === "unreachable") return colours.red;
  return colourOfStatus(colours, status);
}
