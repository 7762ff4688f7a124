// The server's API. Errors carry the server's own words, so that a notice can show them as they are.

/** A request that failed. `status` is 0 if there was no answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** Reads; `path` is without `/api`. */
export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return request<T>("GET", path, undefined, signal);
}

/** Changes something, or asks a question that is too long for an address. */
export function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>("POST", path, body, signal);
}

/** Whether a request was stopped by its own `signal`: no error to show. */
export function stopped(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function request<T>(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api${path}`, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? { accept: "application/json" } : { accept: "application/json", "content-type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (stopped(error)) throw error;
    throw new ApiError(0, "The server does not answer. Is `redial up` still running?");
  }
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, said(text, response));
  if (text === "") return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError(response.status, `${method} /api${path} did not answer with JSON`);
  }
}

function said(text: string, response: Response): string {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed && typeof parsed.error === "string") {
      return parsed.error;
    }
  } catch {
    // No JSON: the status has to do.
  }
  if (response.status === 401) return "Not signed in. Open the address that `redial up` printed, with its token.";
  return `${response.status} ${response.statusText || "error"}`;
}
