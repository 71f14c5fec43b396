import type { Logger } from "../../../base/logger.ts";
import { tiers } from "../manifests/manifest-format.ts";
import type { Tier } from "../port.ts";
import type { AppManifest, ToolDeclaration, ToolRegistry } from "../tool-manifest.ts";
import { ledgerUnavailableRefusal } from "./append-batch.ts";
import type { CallJournal } from "./call-journal.ts";
import type { ToolTier } from "./call-journal-statements.ts";
import { type CallRefusal, deniedRefusal } from "./planned-call.ts";

interface TierHistoryDependencies {
  readonly registry: ToolRegistry;
  readonly journal: Pick<CallJournal, "listToolTiers" | "setToolTiers">;
  readonly logger: Logger;
}

/**
 * Remembers the tier of each declared tool. A manifest with a lower tier would silently remove a confirmation on which
 * the user relies, so the tool can be called only after the user has approved its new declaration. A higher tier
 * applies at once.
 */
export class TierHistory implements Disposable {
  readonly #dependencies: TierHistoryDependencies;
  /** The tier of each tool by `app id/tool`, as in the journal. */
  readonly #tiers = new Map<string, Tier>();
  readonly #unsubscribe: () => void;
  /** Version of the registry whose tiers were recorded last. */
  #recordedVersion: number | undefined;

  /** Throws AssistantError `ledger_unavailable` if the journal cannot be used. */
  constructor(dependencies: TierHistoryDependencies) {
    this.#dependencies = dependencies;
    const { registry, journal, logger } = dependencies;
    for (const known of journal.listToolTiers()) this.#tiers.set(toKey(known), known.tier);
    this.#recordDeclared();
    // Each change is recorded at once, and not only at the next call: a tool whose tier is lowered again before any
    // call must be noticed too.
    this.#unsubscribe = registry.subscribe(() => {
      try {
        this.#recordDeclared();
      } catch (err) {
        logger.warn(
          { err },
          "the tiers of changed tools could not be recorded now; the next call records them",
        );
      }
    });
  }

  /** Returns a refusal if the tool has a lower tier than before. */
  check(app: AppManifest, tool: ToolDeclaration): CallRefusal | undefined {
    try {
      this.#recordDeclared();
    } catch (error) {
      return ledgerUnavailableRefusal(error);
    }
    const known = this.#tiers.get(toKey({ appId: app.appId, tool: tool.name }));
    if (known === undefined || !isLower(tool.tier, known)) return undefined;
    return deniedRefusal(
      "manifest_changed",
      `the manifest of ${app.name} declares ${tool.name} as ${tool.tier}, and declared it as ${known} before; approve the tool to use it anyway`,
      { digest: tool.digest },
    );
  }

  /** Records the tier of this declaration after the user has approved the declaration. */
  approve(appId: string, { name, tier }: ToolDeclaration): void {
    this.#record([{ appId, tool: name, tier }]);
    // The manifest may have changed while the ledger recorded the approval. If it now declares a higher tier, that tier
    // is recorded too.
    this.#recordedVersion = undefined;
    this.#recordDeclared();
    this.#dependencies.logger.info({ app: appId, tool: name, tier }, "a tool's tier was approved");
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
  }

  /** Records the tiers of new tools, and higher tiers. */
  #recordDeclared(): void {
    const { registry } = this.#dependencies;
    const { version } = registry;
    if (version === this.#recordedVersion) return;
    const declared = registry
      .apps()
      .flatMap(({ appId, tools }) =>
        tools.map(({ name, tier }): ToolTier => ({ appId, tool: name, tier })),
      );
    this.#record(
      declared.filter((tool) => {
        const known = this.#tiers.get(toKey(tool));
        return known === undefined || isLower(known, tool.tier);
      }),
    );
    this.#recordedVersion = version;
  }

  #record(changes: readonly ToolTier[]): void {
    if (changes.length > 0) this.#dependencies.journal.setToolTiers(changes);
    for (const change of changes) this.#tiers.set(toKey(change), change.tier);
  }
}

/** Returns a unique key, because neither app ids nor tool names contain a slash. */
function toKey({ appId, tool }: Pick<ToolTier, "appId" | "tool">): string {
  return `${appId}/${tool}`;
}

function isLower(tier: Tier, other: Tier): boolean {
  return tiers.indexOf(tier) < tiers.indexOf(other);
}
