import type { Cleanup } from "../../base/cleanup.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { CompanionConfig } from "../../config/companion-config.ts";
import type { SessionBus } from "../../dbus/port.ts";
import type { OpenLedger } from "../ledger/ledger.ts";
import { ProviderAddresses } from "../remote/address/provider-addresses.ts";
import { builtInProviders } from "../remote/built-in-providers.ts";
import { Consent } from "../remote/consent.ts";
import { RemoteInference } from "../remote/egress/remote-inference.ts";
import { Logins } from "../remote/logins.ts";
import { ProviderCredentials } from "../remote/provider-credentials.ts";
import { ProviderHttpClient } from "../remote/provider-http/provider-http-client.ts";
import { Providers } from "../remote/providers.ts";
import { RemoteManager } from "../remote/remote-manager.ts";
import { Revocations } from "../remote/revocations.ts";
import { OAuthSignIns } from "../remote/sign-in/sign-ins.ts";
import { RemoteStore } from "../remote/store/remote-store.ts";
import { EncryptedVault } from "../remote/vault/encrypted-vault.ts";

export interface CompanionRemoteDependencies {
  readonly ledger: OpenLedger;
  /** The connection that requests the vault's key from the Secret Service. */
  readonly sessionBus: SessionBus;
  /** Ports of this machine that Berth itself listens on. The address of a provider cannot have one of these ports. */
  readonly ownPorts: () => ReadonlySet<number>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The egress broker: it manages the providers and the user's consent, and only it sends requests to providers. */
export interface CompanionRemote {
  readonly service: RemoteManager;
  readonly inference: RemoteInference;
  readonly providers: Providers;
  readonly consent: Consent;
}

export async function openCompanionRemote(
  config: CompanionConfig,
  dependencies: CompanionRemoteDependencies,
  cleanup: Cleanup,
): Promise<CompanionRemote> {
  const { ledger, sessionBus, ownPorts, clock, logger } = dependencies;
  const { dataDir: dir, environment, signIn: endpoints } = config;
  const store = new RemoteStore({ dir });
  cleanup.defer(() => store[Symbol.dispose]());
  const vault = cleanup.use(
    await EncryptedVault.open({ dir, environment, sessionBus, clock, logger }),
  );
  const providers = new Providers({
    builtIn: builtInProviders(endpoints),
    store,
    describe: (id) => vault.describe(id),
    clock,
  });
  const consent = new Consent(store.allowed());
  const logins = new Logins({
    open: (sink) => cleanup.use(new OAuthSignIns({ endpoints, sink, clock, logger })),
    ledger,
  });
  const credentials = cleanup.use(
    new ProviderCredentials({ vault, ledger, clock, renewer: logins.signIns }),
  );
  logins.setDestination({ credentials, find: (id) => providers.find(id) });
  const addresses = new ProviderAddresses({ ownPorts });
  const revocations = new Revocations();
  const http = cleanup.use(new ProviderHttpClient({ addresses, clock }));
  const inference = cleanup.use(
    new RemoteInference({
      http,
      providers: {
        find: (id) => providers.find(id),
        usable: () => providers.usable(),
        bearer: (provider, signal) => credentials.bearer(provider, signal),
        noteStatus: (id, status) => providers.noteStatus(id, status),
        onRevoked: (id, callback) => revocations.onRevoked(id, callback),
      },
      consent,
      ledger,
      ledgerOk: () => ledger.state.ok,
      clock,
      logger,
    }),
  );
  const service = cleanup.use(
    new RemoteManager({
      store,
      vault,
      providers,
      credentials,
      consent,
      logins,
      addresses,
      listModels: (id, signal, asker) => inference.listModels(id, signal, asker),
      revocations: revocations,
      disconnect: (id) => http.closeIdle(id),
      ledger,
    }),
  );
  return { service, inference, providers, consent };
}
