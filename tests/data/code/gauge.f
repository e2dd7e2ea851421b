C     READS THE GAUGE AT THE PIER.
C
*     LEVELS ARE IN METRES.
      SUBROUTINE GAUGE(TIME, LEVEL,
     1                 WIND)
      REAL TIME, LEVEL, WIND
c     waves are not counted
      LEVEL = SIN(TIME) +
     &        0.1 * WIND
      DO 10 I = 1, 3
        LEVEL = LEVEL + I
   10 CONTINUE
      END

      DOUBLE PRECISION FUNCTION TWICE(N)
      TWICE = 2 * N
      RETURN
      END
