// Speaking with the server: JSON there and back.

import { say } from "../words.js";

const PATIENCE = 30000; // milliseconds for an answer
const GONE = [502, 503, 504]; // what stands between may say so while the server is away

/** What the server answers; throws {isLost} without a connection, or else what the server says of the problem:
 *  {status, message, doubt, session}. */
export async function call(method, path, body = undefined) {
  const isForm = body instanceof FormData;
  const options = { method, signal: AbortSignal.timeout(PATIENCE) };
  if (body !== undefined) Object.assign(options, isForm ? { body } : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw { isLost: true };
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (GONE.includes(response.status) && !answer.message) throw { isLost: true };
  if (!response.ok) throw { status: response.status, message: "", ...answer };
  return answer;
}

export const get = path => call("GET", path);

/** What to say of a problem that `call` throws. */
export const problemText = problem => (problem.isLost ? say("no_server") : problem.message || say("failed"));

/** A part of an address. */
export const encoded = encodeURIComponent;
