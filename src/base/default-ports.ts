/** The default ports of the server, of the system instance of the assistant, and of the companion. */
export const defaultPorts = { api: 7776, system: 7777, companion: 7778 } as const;
