import type { DataClass } from "../../../src/assistant/data-class.ts";
import type { InferenceHttpLimits } from "../../../src/assistant/inference/http/http-context.ts";
import { ProviderAddresses } from "../../../src/assistant/remote/address/provider-addresses.ts";
import { Consent } from "../../../src/assistant/remote/consent.ts";
import { RemoteInference } from "../../../src/assistant/remote/egress/remote-inference.ts";
import { ProviderHttpClient } from "../../../src/assistant/remote/provider-http/provider-http-client.ts";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { FakeLedger } from "../fake-ledger.ts";
import { type InferenceHttpHarness, startInferenceHttp } from "../inference-http-harness.ts";
import { ScriptedProviderDirectory } from "./scripted-provider-directory.ts";
import { TestProvider, type TestProviderOptions } from "./test-provider.ts";

export const KEY = "sk-test-0123456789abcdef";

/** The companion's HTTP server with a scripted local inference service, and a TLS provider with the id `there`. */
export interface RemoteModelsHarness extends AsyncDisposable {
  readonly provider: TestProvider;
  readonly directory: ScriptedProviderDirectory;
  readonly consent: Consent;
  readonly ledger: FakeLedger;
  readonly http: InferenceHttpHarness;
}

export async function startRemoteModels(
  options: {
    readonly allowed?: readonly DataClass[];
    readonly aliases?: ReadonlyMap<string, readonly string[]>;
    readonly limits?: Partial<InferenceHttpLimits>;
    readonly provider?: TestProviderOptions;
    readonly clock?: Clock;
  } = {},
): Promise<RemoteModelsHarness> {
  const { aliases, limits } = options;
  const provider = await TestProvider.start({ tls: true, key: KEY, ...options.provider });
  const directory = new ScriptedProviderDirectory();
  directory.add("there", provider.baseUrl, KEY);
  const consent = new Consent(options.allowed ?? ["prompt"]);
  const ledger = new FakeLedger();
  const { clock = systemClock } = options;
  const logger = silentLogger;
  const addresses = new ProviderAddresses({ ownPorts: () => new Set() });
  const extraAuthorities = provider.ca === "" ? [] : [provider.ca];
  const connections = new ProviderHttpClient({ addresses, clock, extraAuthorities });
  const remote = new RemoteInference({
    http: connections,
    providers: directory,
    ledger,
    consent,
    clock,
    logger,
  });
  const http = await startInferenceHttp({
    remote,
    clock,
    ...(aliases ? { aliases } : {}),
    ...(limits ? { limits } : {}),
  });
  return {
    provider,
    directory,
    consent,
    ledger,
    http,
    async [Symbol.asyncDispose]() {
      await http[Symbol.asyncDispose]();
      await remote[Symbol.asyncDispose]();
      await connections[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
}
