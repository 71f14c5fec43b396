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

/** Descriptions of the scopes; see `docs/remote.md`. */
const scopeDescriptions: Readonly<Record<(typeof consentScopes)[number], string>> = {
  prompt: "prompts of you and your programs",
  files: "passages of your files that a search has found",
  mail: "passages of your mail",
  calendar: "entries of your calendar",
  screen: "the content of your screen",
  memory: "the memory of apps",
};

/** Formats the providers, the consent, and problems that the user should fix. */
export function showRemote(report: RemoteReport, style: ViewOptions): string {
  const parts = [showProviders(report.providers, style), formatConsentSection(report, style)];
  const { pending, protection } = report;
  if (pending.length > 0)
    parts.push(`A sign-in is in progress at ${pending.map((id) => sanitizeLine(id)).join(", ")}.`);
  if (protection.isLocked)
    parts.push(
      style.colours.red(
        `The keys of providers cannot be read or written now: ${sanitizeLine(protection.message ?? "their encryption key is locked")}`,
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

/** Returns one line for each data class: `on` if it may be sent to providers, otherwise `off`. */
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
    "May be sent to providers (`berth remote consent`)",
    showConsent(consent, style),
    style,
  );
}

function formatAddress({ baseUrl, addressClass }: ProviderRow): string {
  const text = sanitizeLine(baseUrl);
  if (addressClass === "loopback") return `${text} (this machine)`;
  return addressClass === "private" ? `${text} (your network)` : text;
}

function formatCredential(provider: ProviderRow, nowMs: number): string {
  const { lockedBy } = provider.credential;
  const text = formatUnlockedCredential(provider, nowMs);
  return lockedBy === undefined
    ? text
    : `${text}; locked by ${sourceNames.get(lockedBy) ?? sanitizeLine(lockedBy)}`;
}

/** The sources of the key that encrypts the credentials. */
const sourceNames: ReadonlyMap<string, string> = new Map([
  ["systemd-credential", "the systemd credential"],
  ["secret-service", "the keyring"],
  ["file", "the key file"],
]);

function formatUnlockedCredential(
  { credential: { kind, expiresAt }, hasSignIn, addressClass }: ProviderRow,
  nowMs: number,
): string {
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
