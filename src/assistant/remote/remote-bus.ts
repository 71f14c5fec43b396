import { toText } from "../../dbus/bus-values.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { KeyDescriptor } from "./key-descriptor.ts";
import type { RemoteService } from "./port.ts";

const PATH = "/dev/assistant/Remote1";
const INTERFACE = "dev.assistant.Remote1";
const INTERFACE_VERSION = 1;

export interface RemoteBusOptions {
  readonly bus: Bus;
  readonly service: RemoteService;
  /** The daemon's name and version, for example `berth 0.1.0`, which the bus method Ping returns. */
  readonly daemon: string;
}

/** Exports the remote service on the session bus as `dev.assistant.Remote1`. Returns a function that removes it. */
export function serveRemote(options: RemoteBusOptions): () => void {
  const { bus, service } = options;
  const remove = bus.serve(PATH, remoteInterface(options));
  const unsubscribe = service.subscribe({
    // The signal LoginCompleted is sent to all programs on the bus, because the program that started the sign-in may
    // have exited while another one shows the providers. The signal contains no token.
    loginCompleted: (...end) =>
      bus.emit({ path: PATH, interface: INTERFACE, name: "LoginCompleted", args: end }, undefined),
  });
  return () => {
    unsubscribe();
    remove();
  };
}

function remoteInterface({ service, daemon }: RemoteBusOptions): ServedInterface {
  return {
    name: INTERFACE,
    methods: {
      Ping: () => [daemon],
      State: () => [JSON.stringify(service.state())],
      AddProvider: async ({ args: [id, displayName, baseUrl], caller }) => {
        const provider = {
          id: toText(id),
          displayName: toText(displayName),
          baseUrl: toText(baseUrl),
        };
        await service.addProvider(provider, caller);
        return [];
      },
      RemoveProvider: async ({ args: [id], caller }) => {
        await service.removeProvider(toText(id), caller);
        return [];
      },
      SetKey: async ({ args: [id, key], caller }) => {
        await service.setKey(toText(id), toText(key), caller);
        return [];
      },
      SetKeyFd: async ({ args: [id, fd], caller, signal }) => {
        using descriptor = new KeyDescriptor(Number(fd));
        const read = (cancelled: AbortSignal) =>
          descriptor.read(AbortSignal.any([signal, cancelled]));
        await service.setKey(toText(id), read, caller);
        return [];
      },
      ClearKey: async ({ args: [id], caller }) => {
        await service.clearKey(toText(id), caller);
        return [];
      },
      SetConsent: async ({ args: [scope, isAllowed], caller }) => {
        await service.setConsent(toText(scope), isAllowed === true, caller);
        return [];
      },
      BeginLogin: async ({ args: [id], caller }) => [await service.beginLogin(toText(id), caller)],
      Logout: async ({ args: [id], caller }) => {
        await service.logout(toText(id), caller);
        return [];
      },
      ListModels: async ({ args: [id], caller, signal }) => [
        JSON.stringify(await service.listModels(toText(id), caller, signal)),
      ],
    },
    properties: { Version: () => INTERFACE_VERSION },
  };
}
