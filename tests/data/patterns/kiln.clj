(ns kiln.core
  "Firing pottery."
  (:require [clojure.string :as str]))

;; Degrees at which glaze melts.
(def glaze-point 1200)

(def programs
  {:bisque 950
   :glaze 1220})

(defn heat
  "Raises the temperature of a kiln."
  [kiln degrees]
  (update kiln :degrees + degrees))

(defn- ^:private cool [k] (str k ")" \( "x"))

(defmulti fire :program)
(defmethod fire :glaze [job] (heat job 1220))
(defrecord Kiln [degrees])
(defmacro with-kiln [k & body]
  `(let [kiln# ~k] ~@body))
(deftest heat-test
  (is (= 1 1)))
