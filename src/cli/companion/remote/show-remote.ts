import {
  consentScopes,
  type ProviderRow,
  type RemoteReport,
} from "../../../client/bus/remote-wire.ts";
import { getStatusColour } from "../../colours.ts";
import { formatAge, formatTime } from "../../format-time.ts";
import { formatSection, type ViewOptions } from "../../output/format-sections.ts";
import { formatTable } from "../../output/table.ts";
import { sanitizeLine } from "../untrusted-text.ts";

/** What each scope stands for, as `docs/remote.md` has it. */
const scopeDescriptions: Readonly<Record<(typeof consentScopes)[number], string>> = {
  prompt: "what you and programs of yours write to a model",
  files: "passages of files that were found for a question",
  mail: "the same of mail",
  calendar: "the same of the calendar",
  screen: "what is on the screen",
  memory: "what apps have had remembered",
};

/** Providers, below them what may go to any of them, and what a person should see to. */
export function showRemote(report: RemoteReport, style: ViewOptions): string {
  const parts = [showProviders(report.providers, style), formatConsentSection(report, style)];
  const { pending, protection } = report;
  if (pending.length > 0)
    parts.push(`A sign-in is under way at ${pending.map((id) => sanitizeLine(id)).join(", ")}.`);
  if (protection.isLocked)
    parts.push(
      style.colours.red(
        `Keys cannot be read or written now: ${sanitizeLine(protection.message ?? "what they are encrypted with is locked")}`,
      ),
    );
  return parts.map((part) => part.trimEnd()).join("\n\n");
}

export function showProviders(providers: readonly ProviderRow[], style: ViewOptions): string {
  return formatTable(
    providers,
    [
      { header: "PROVIDER", value: ({ id }) => sanitizeLine(id) },
      { header: "ADDRESS", value: formatAddress, canShrink: true },
      { header: "CREDENTIAL", value: (provider) => formatCredential(provider, style.nowMs) },
      {
        header: "STATUS",
        value: ({ status }) => sanitizeLine(status),
        colour: (text, { status }) => chooseStatusColour(style, status)(text),
      },
      { header: "LAST USED", value: ({ lastUsed }) => formatAge(lastUsed, style.nowMs) },
    ],
    { width: style.width },
  );
}

/** A line for each scope. */
export function showConsent(consent: RemoteReport["consent"], style: ViewOptions): string {
  return consentScopes
    .map((scope) => {
      const answer = consent[scope] ? style.colours.yellow("on ") : style.colours.dim("off");
      return `${scope.padEnd(8)}   ${answer}   ${style.colours.dim(scopeDescriptions[scope])}`;
    })
    .join("\n");
}

function formatConsentSection({ consent }: RemoteReport, style: ViewOptions): string {
  return formatSection(
    "May leave this machine (`berth remote consent`)",
    showConsent(consent, style),
    style,
  );
}

function formatAddress({ baseUrl, addressClass }: ProviderRow): string {
  const text = sanitizeLine(baseUrl);
  if (addressClass === "loopback") return `${text} (this machine)`;
  return addressClass === "private" ? `${text} (your network)` : text;
}

function formatCredential(
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

function chooseStatusColour({ colours }: ViewOptions, status: string): (text: string) => string {
  if (status === "unknown") return colours.dim;
  if (status === "unauthorized" || status === "unreachable") return colours.red;
  return getStatusColour(colours, status);
}
